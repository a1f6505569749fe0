//! `#[derive(Enum)]`: an enum without data, stored in a column of small integers.
//!
//! Not here: tables (`parse.rs`, `expand.rs`).

use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Fields, LitStr, Path, Result};

/// The code of an enum.
pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Enum(data) = &input.data else {
        return Err(Error::new(
            input.ident.span(),
            "only an enum can derive `Enum`: a struct can derive `Table`",
        ));
    };
    if !input.generics.params.is_empty() {
        return Err(Error::new(input.generics.span(), "an enum in a column cannot have generics"));
    }
    if data.variants.is_empty() {
        return Err(Error::new(input.ident.span(), "an enum without variants has no values"));
    }
    if let Some(variant) =
        data.variants.iter().find(|variant| !matches!(variant.fields, Fields::Unit))
    {
        let what =
            "a column stores only the variant, not its data: use separate columns for the data";
        return Err(Error::new(variant.fields.span(), what));
    }
    let library = library(input)?;
    let (ident, name) = (&input.ident, input.ident.to_string());
    let variants: Vec<_> = data.variants.iter().map(|variant| &variant.ident).collect();
    Ok(quote! {
        const _: () = {
            #(assert!(
                #ident::#variants as i64 == #ident::#variants as i16 as i64,
                "the discriminant of a variant must fit into a smallint"
            );)*

            impl #library::types::StoredAs<#library::types::SmallInt> for #ident {
                fn stored(self) -> ::core::option::Option<i16> {
                    ::core::option::Option::Some(self as i16)
                }
                fn from_stored(stored: i16) -> Self {
                    #(if stored == #ident::#variants as i16 {
                        return #ident::#variants;
                    })*
                    panic!("{stored} is not a value of {}", #name)
                }
            }

            impl #library::types::DefaultColumn for #ident {
                type Sql = #library::types::SmallInt;
            }

            #library::types::field_as!(#ident: #library::types::SmallInt);
        };
    })
}

/// The path of the library.
fn library(input: &DeriveInput) -> Result<Path> {
    let mut library = syn::parse_quote!(::tombolo);
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("table")) {
        attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("crate") {
                return Err(meta.error("unknown option: an enum has `crate = \"…\"`"));
            }
            library = meta.value()?.parse::<LitStr>()?.parse()?;
            Ok(())
        })?;
    }
    Ok(library)
}
