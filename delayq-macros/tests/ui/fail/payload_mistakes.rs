use delayq::payload;

#[payload(crat = ::delayq)]
struct Misspelt;

#[payload(name = "old", crate = "::delayq")]
enum Named {
    A,
}

#[payload]
union Bits {
    a: u64,
    b: i64,
}

#[payload]
fn function() {}

fn is_payload<T: serde::Serialize + serde::de::DeserializeOwned>() {}

fn main() {
    is_payload::<Misspelt>();
    is_payload::<Named>();
    let _ = (Bits { a: 1 }, Named::A);
    function();
}
