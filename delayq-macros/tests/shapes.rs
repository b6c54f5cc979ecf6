//! Shapes of jobs that must compile and do what they say: one file a shape, in one program.
// What is written here is what users write, whatever this project's own lints say of it.
#![allow(
    clippy::all,
    clippy::unwrap_used,
    clippy::print_stdout,
    dead_code,
    unreachable_pub,
    unused_imports,
    unused_macros
)]

#[path = "shapes/cfg_below.rs"]
mod cfg_below;
#[path = "shapes/every_argument.rs"]
mod every_argument;
#[path = "shapes/external_handler.rs"]
mod external_handler;
#[path = "shapes/external_serde.rs"]
mod external_serde;
#[path = "shapes/from_macro_rules.rs"]
mod from_macro_rules;
#[path = "shapes/inside_functions.rs"]
mod inside_functions;
#[path = "shapes/minimal.rs"]
mod minimal;
#[path = "shapes/no_implicit_prelude.rs"]
mod no_implicit_prelude;
#[path = "shapes/older_versions.rs"]
mod older_versions;
#[path = "shapes/payload_shapes.rs"]
mod payload_shapes;
#[path = "shapes/registered_lines.rs"]
mod registered_lines;
#[path = "shapes/renamed_crate.rs"]
mod renamed_crate;
#[path = "shapes/serde_attributes_there.rs"]
mod serde_attributes_there;
#[path = "shapes/serde_derives_there.rs"]
mod serde_derives_there;
#[path = "shapes/shadowed_prelude.rs"]
mod shadowed_prelude;
#[path = "shapes/strict_lints.rs"]
mod strict_lints;
#[path = "shapes/tuple_and_unit_structs.rs"]
mod tuple_and_unit_structs;
#[path = "shapes/unique_fields.rs"]
mod unique_fields;

macro_rules! shapes {
    ($($name:ident)+) => {
        $(
            #[test]
            fn $name() {
                $name::main();
            }
        )+
    };
}

shapes! {
    cfg_below
    every_argument
    external_handler
    external_serde
    from_macro_rules
    inside_functions
    minimal
    no_implicit_prelude
    older_versions
    payload_shapes
    registered_lines
    renamed_crate
    serde_attributes_there
    serde_derives_there
    shadowed_prelude
    strict_lints
    tuple_and_unit_structs
    unique_fields
}
