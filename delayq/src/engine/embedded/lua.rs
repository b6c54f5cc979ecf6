//! The scripts, run in process: the same files that Redis gets.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mlua::state::{GcIncParams, GcMode};
use mlua::{BString, Either, Function, IntoLua, Lua, LuaOptions, StdLib, Table, Value};

use super::commands::{self, Answer};
use super::failure::Fault;
use super::keyspace::Keyspace;
use crate::engine::{Reply, Script};

/// How much Lua's memory grows until it is tidied up, in percent. Scripts leave a lot behind and hold on to little, but what
/// they leave must not lie about for long: Lua looks at few bytes of a long string to tell it from others, so that records
/// of one kind stand in one line, and each new one is compared with all of them.
const GC_PAUSE: std::os::raw::c_int = 200;

/// What makes `redis.call`: it hands over one list, which is read in place, where each word by itself would be held fast first.
const CALL: &str = "local run, count = ..., select return function(...) return run(count('#', ...), { ... }) end";

/// An interpreter on a keyspace.
pub(super) struct Interpreter {
    lua: Lua,
    space: Arc<Mutex<Keyspace>>,
    compiled: HashMap<&'static str, Function>,
}

/// A fault, to be raised in Lua.
fn carried(fault: Fault) -> mlua::Error {
    mlua::Error::external(Carried(Mutex::new(Some(fault))))
}

fn lua_fault(error: &mlua::Error) -> Fault {
    match error.downcast_ref::<Carried>() {
        Some(Carried(fault)) => match fault.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(fault) => fault,
            None => Fault::Lua(error.to_string()),
        },
        None => Fault::Lua(error.to_string()),
    }
}

/// A fault on its way through Lua, which no script catches.
#[derive(Debug)]
struct Carried(Mutex<Option<Fault>>);

impl std::fmt::Display for Carried {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a command failed")
    }
}

impl std::error::Error for Carried {}

impl Interpreter {
    pub(super) fn new(space: Keyspace) -> Result<Interpreter, Fault> {
        let space = Arc::new(Mutex::new(space));
        let made = (|| {
            let lua = Lua::new_with(StdLib::STRING | StdLib::TABLE | StdLib::MATH, LuaOptions::default())?;
            lua.gc_set_mode(GcMode::Incremental(GcIncParams::default().pause(GC_PAUSE)));
            let redis = lua.create_table()?;
            let used = space.clone();
            let run = lua.create_function(move |lua, (count, list): (usize, Table)| {
                let words = words(count, &list)?;
                let mut space = used.lock().unwrap_or_else(PoisonError::into_inner);
                let answer = commands::run(&mut space, &words).map_err(carried)?;
                to_lua(lua, answer)
            })?;
            redis.set("call", lua.load(CALL).set_name("redis.call").call::<Function>(run)?)?;
            redis.set(
                "error_reply",
                lua.create_function(|lua, text: mlua::LuaString| {
                    let reply = lua.create_table()?;
                    reply.raw_set("err", text)?;
                    Ok(reply)
                })?,
            )?;
            lua.globals().set("redis", redis)?;
            Ok(lua)
        })();
        let lua = made.map_err(|error: mlua::Error| Fault::Lua(error.to_string()))?;
        Ok(Interpreter { lua, space, compiled: HashMap::new() })
    }

    pub(super) fn space(&self) -> MutexGuard<'_, Keyspace> {
        self.space.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a script inside the transaction that there is.
    pub(super) fn run(&mut self, script: &'static Script, keys: &[Vec<u8>], args: &[Vec<u8>]) -> Result<Reply, Fault> {
        let answer = self.evaluate(script, keys, args).map_err(|error| lua_fault(&error))?;
        match &answer {
            Value::Table(table) => match table.raw_get::<Option<mlua::LuaString>>("err") {
                Ok(Some(text)) => Err(Fault::said(text.to_string_lossy())),
                _ => reply(&answer),
            },
            _ => reply(&answer),
        }
        .map_err(|fault| match fault {
            Fault::Lua(text) => Fault::Lua(format!("{}: {text}", script.name)),
            other => other,
        })
    }

    fn evaluate(&mut self, script: &'static Script, keys: &[Vec<u8>], args: &[Vec<u8>]) -> mlua::Result<Value> {
        let function = match self.compiled.get(script.name) {
            Some(function) => function,
            None => {
                let function = self.lua.load(script.source).set_name(script.name).into_function()?;
                self.compiled.entry(script.name).or_insert(function)
            }
        };
        let globals = self.lua.globals();
        for (name, values) in [("KEYS", keys), ("ARGV", args)] {
            let list = self.lua.create_sequence_from(values.iter().map(|value| lent(value)))?;
            globals.raw_set(name, list)?;
        }
        function.call(())
    }
}

/// Bytes that become a string of Lua's.
struct Lent<'a>(&'a [u8]);

impl IntoLua for Lent<'_> {
    fn into_lua(self, lua: &Lua) -> mlua::Result<Value> {
        Ok(Value::String(lua.create_string(self.0)?))
    }
}

/// The same by the shorter way that there is for text.
fn lent(bytes: &[u8]) -> Either<&str, Lent<'_>> {
    std::str::from_utf8(bytes).map_or(Either::Right(Lent(bytes)), Either::Left)
}

/// The words of a command, as Redis takes them: a whole number in full. One with a fraction comes as Lua writes it, where Redis has all 17
/// digits; scripts pass none.
fn words(count: usize, list: &Table) -> mlua::Result<Vec<Vec<u8>>> {
    let refused = || carried(Fault::said("ERR Lua redis lib command arguments must be strings or integers"));
    let mut words = Vec::with_capacity(count);
    for word in list.sequence_values::<BString>() {
        words.push(Vec::from(word.map_err(|_| refused())?));
    }
    // A nil ends the list.
    if words.len() != count {
        return Err(refused());
    }
    for (at, word) in words.iter_mut().enumerate() {
        if !is_of_number(word) || word.iter().all(u8::is_ascii_digit) {
            continue;
        }
        // Lua rounds to 14 digits where it writes a number that has a fraction or more digits than these.
        match list.raw_get::<Value>(at + 1)? {
            Value::Integer(n) => *word = n.to_string().into_bytes(),
            Value::Number(n) => *word = n.to_string().into_bytes(),
            _ => {}
        }
    }
    Ok(words)
}

/// Whether Lua may have written this text for a number.
fn is_of_number(text: &[u8]) -> bool {
    text.len() <= 24 && text.iter().all(|byte| byte.is_ascii_digit() || b"+-.einfa".contains(byte))
}

fn to_lua(lua: &Lua, answer: Answer) -> mlua::Result<Value> {
    Ok(match answer {
        Answer::Nil => Value::Boolean(false),
        // Lua has one kind of number, which holds every count and clock exactly.
        Answer::Int(n) => Value::Number(n as f64),
        Answer::Bytes(bytes) => Value::String(lua.create_string(bytes)?),
        Answer::List(parts) => Value::Table(lua.create_sequence_from(parts.iter().map(|part| match part {
            Some(bytes) => Either::Left(lent(bytes)),
            None => Either::Right(false),
        }))?),
        Answer::Page(cursor, parts) => {
            let parts = lua.create_sequence_from(parts.into_iter().map(BString::from))?;
            let cursor = lua.create_string(cursor)?;
            Value::Table(lua.create_sequence_from([Value::String(cursor), Value::Table(parts)])?)
        }
        Answer::Flags(flags) => {
            Value::Table(lua.create_sequence_from(flags.into_iter().map(|is| f64::from(u8::from(is))))?)
        }
    })
}

/// What a script returned, as Redis converts it: numbers lose their fraction, a list ends at its first nil.
fn reply(value: &Value) -> Result<Reply, Fault> {
    Ok(match value {
        Value::Integer(n) => Reply::Int(*n),
        Value::Number(n) => Reply::Int(*n as i64),
        Value::Boolean(true) => Reply::Int(1),
        Value::Nil | Value::Boolean(false) => Reply::Nil,
        Value::String(text) => Reply::Bytes(text.as_bytes().to_vec()),
        Value::Table(list) => Reply::List(parts(list)?),
        _ => return Err(Fault::Lua("it returned what is no reply".to_owned())),
    })
}

fn parts(list: &Table) -> Result<Vec<Reply>, Fault> {
    if let Some(texts) = texts(list) {
        return Ok(texts);
    }
    let part = |part: mlua::Result<Value>| reply(&part.map_err(|error| Fault::Lua(error.to_string()))?);
    list.sequence_values::<Value>().map(part).collect()
}

/// A list of nothing but strings, read in place.
fn texts(list: &Table) -> Option<Vec<Reply>> {
    let text = |text: mlua::Result<BString>| {
        let text = text.ok()?;
        // A number would come as a string too.
        (!is_of_number(&text)).then(|| Reply::Bytes(text.into()))
    };
    list.sequence_values::<BString>().map(text).collect()
}
