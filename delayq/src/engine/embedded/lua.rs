//! The scripts, run in process: the same files that Redis gets.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mlua::state::{GcIncParams, GcMode};
use mlua::{BString, BorrowedBytes, Either, Function, Lua, LuaOptions, MultiValue, StdLib, Table, Value};

use super::commands::{self, Answer};
use super::failure::Fault;
use super::keyspace::Keyspace;
use crate::engine::{Reply, Script};

/// How much Lua's memory grows until it is tidied up, in percent: scripts leave a lot behind and hold on to little.
const GC_PAUSE: std::os::raw::c_int = 400;

/// An interpreter on a keyspace.
pub(super) struct Interpreter {
    lua: Lua,
    space: Arc<Mutex<Keyspace>>,
    compiled: HashMap<&'static str, Function>,
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
            redis.set(
                "call",
                lua.create_function(move |lua, words: MultiValue| {
                    let words = words.into_iter().map(word).collect::<mlua::Result<Vec<_>>>()?;
                    let mut space = used.lock().unwrap_or_else(PoisonError::into_inner);
                    let answer = commands::run(&mut space, &words)
                        .map_err(|fault| mlua::Error::external(Carried(Mutex::new(Some(fault)))))?;
                    to_lua(lua, answer)
                })?,
            )?;
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
            let list = self.lua.create_sequence_from(values.iter().map(|value| BString::from(value.as_slice())))?;
            globals.raw_set(name, list)?;
        }
        function.call(())
    }
}

/// An argument of a command: where it stands in Lua, or made for it.
pub(super) enum Word {
    Lent(BorrowedBytes),
    Made(String),
}

impl Deref for Word {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Word::Lent(bytes) => bytes,
            Word::Made(text) => text.as_bytes(),
        }
    }
}

/// An argument of a command, as Redis takes it: a number without a fraction in full.
fn word(value: Value) -> mlua::Result<Word> {
    match value {
        Value::String(text) => Ok(Word::Lent(text.as_bytes())),
        Value::Integer(n) => Ok(Word::Made(n.to_string())),
        Value::Number(n) => Ok(Word::Made(n.to_string())),
        _ => Err(mlua::Error::external(Carried(Mutex::new(Some(Fault::said(
            "ERR Lua redis lib command arguments must be strings or integers",
        )))))),
    }
}

fn to_lua(lua: &Lua, answer: Answer) -> mlua::Result<Value> {
    Ok(match answer {
        Answer::Nil => Value::Boolean(false),
        // Lua has one kind of number, which holds every count and clock exactly.
        Answer::Int(n) => Value::Number(n as f64),
        Answer::Bytes(bytes) => Value::String(lua.create_string(bytes)?),
        Answer::List(parts) => Value::Table(lua.create_sequence_from(parts.into_iter().map(|part| match part {
            Some(bytes) => Either::Left(BString::from(bytes)),
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
    let mut parts = Vec::new();
    for at in 1.. {
        match list.raw_get::<Value>(at) {
            Ok(Value::Nil) => break,
            Ok(part) => parts.push(reply(&part)?),
            Err(error) => return Err(Fault::Lua(error.to_string())),
        }
    }
    Ok(parts)
}
