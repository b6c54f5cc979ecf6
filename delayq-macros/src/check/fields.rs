//! Checks that `unique` names fields of the struct.

use proc_macro2::Ident;
use syn::ext::IdentExt;
use syn::{Data, DeriveInput, Index, Member};

use crate::problems::Problems;
use crate::suggest;

/// The fields that `unique` names, each at the place where it was written.
pub(super) fn check(written: &[Member], item: &DeriveInput, problems: &mut Problems) -> Vec<Member> {
    // Without a struct there are no fields to look among, and that mistake is recorded already.
    let Data::Struct(data) = &item.data else { return Vec::new() };
    let known: Vec<Member> = data.fields.members().collect();
    let names: Vec<String> = known.iter().map(plain).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();

    let mut found: Vec<Member> = Vec::new();
    for member in written {
        let name = plain(member);
        let Some(position) = names.iter().position(|known| *known == name) else {
            problems.at(
                member,
                format!("`{}` has no field `{name}`: {}", item.ident, suggest::hint(&name, "field", &names)),
            );
            continue;
        };
        if found.iter().any(|earlier| plain(earlier) == name) {
            problems.at(member, format!("`{name}` is in the unique key already: remove it"));
            continue;
        }
        found.push(placed(&known[position], member));
    }
    found
}

fn plain(member: &Member) -> String {
    match member {
        Member::Named(ident) => ident.unraw().to_string(),
        Member::Unnamed(index) => index.index.to_string(),
    }
}

/// The struct's own field, shown where the attribute names it.
fn placed(field: &Member, written: &Member) -> Member {
    match (field, written) {
        (Member::Named(field), Member::Named(written)) => {
            let mut ident: Ident = field.clone();
            ident.set_span(written.span().resolved_at(field.span()));
            Member::Named(ident)
        }
        (field, Member::Unnamed(Index { span, .. })) => {
            let mut field = field.clone();
            if let Member::Unnamed(index) = &mut field {
                index.span = *span;
            }
            field
        }
        _ => field.clone(),
    }
}
