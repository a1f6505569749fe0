//! What a derived table stands for: constants, definitions, and the way between a row and a value.
//!
//! Types of columns are named as `tombolo::types` has them, inside a block of their own, so that a
//! program need not import them. Conversions carry the place of their field, and so do errors of the
//! compiler about them.

use proc_macro2::{Ident, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;

use crate::parse::{Column, Index, Shape, Table};

/// The code of a table.
pub(crate) fn expand(table: &Table) -> TokenStream {
    let Table { ident, name, columns, indexes, .. } = table;
    let constants = columns.iter().enumerate().map(|(at, column)| constant(ident, at, column));
    let definitions = columns.iter().map(definition);
    let types = indexes.iter().map(|index| index_type(table, index));
    let implementations = indexes.iter().map(|index| index_definition(table, index));
    let index_types = indexes.iter().map(|index| &index.ident);
    let reads = columns.iter().map(|column| read(ident, column));
    let fills = columns.iter().map(|column| fill(ident, column));
    quote! {
        #(#types)*

        #[allow(
            dead_code,
            unused_imports,
            missing_docs,
            unreachable_pub,
            reason = "columns are declared for completeness"
        )]
        const _: () = {
            use ::tombolo::types::*;

            impl #ident {
                #(#constants)*
            }

            impl ::tombolo::derived::DeclaredTable for #ident {
                const NAME: &'static str = #name;
                const COLUMNS: &'static [::tombolo::ColumnDef] = &[#(#definitions),*];
            }

            #(#implementations)*

            impl ::tombolo::TableRow for #ident {
                fn definition() -> ::tombolo::TableDef {
                    ::tombolo::TableDef::of::<#ident>()#(.with::<#index_types>())*
                }

                fn read(row: &::tombolo::RowRef<'_, Self>) -> Self {
                    Self { #(#reads),* }
                }

                fn fill(&self, row: &mut ::tombolo::NewRow<'_, Self>) {
                    #(#fills)*
                }
            }
        };
    }
}

/// The name of a column's constant.
fn capitals(column: &Column) -> Ident {
    Ident::new(&column.name().to_ascii_uppercase(), column.ident.span())
}

fn constant(table: &Ident, position: usize, column: &Column) -> TokenStream {
    let Column { vis, docs, sql, .. } = column;
    let name = capitals(column);
    quote! {
        #(#docs)*
        #vis const #name: ::tombolo::Column<#table, #sql> = ::tombolo::Column::new(
            <#table as ::tombolo::derived::DeclaredTable>::COLUMNS,
            #position,
        );
    }
}

fn definition(column: &Column) -> TokenStream {
    let (name, sql) = (column.name(), &column.sql);
    let range = column.range.iter().map(|(low, high)| quote!(.within(#low, #high)));
    let hot = column.hot.then(|| quote!(.hot()));
    let added = column.added.then(|| quote!(.added()));
    let default = column.default.iter().map(|default| quote!(.or(#default)));
    quote!(::tombolo::ColumnDef::of::<#sql>(#name) #(#range)* #hot #added #(#default)*)
}

fn index_type(table: &Table, index: &Index) -> TokenStream {
    let (vis, ident) = (&table.vis, &index.ident);
    let doc = format!("Index `{}` of [`{}`].", index.name, table.ident);
    quote! {
        #[doc = #doc]
        #[derive(Clone, Copy, Debug)]
        #vis struct #ident;
    }
}

fn index_definition(table: &Table, index: &Index) -> TokenStream {
    let Index { ident, name, columns, unique, hash } = index;
    let (owner, count) = (&table.ident, columns.len());
    let types = columns.iter().map(|&column| &table.columns[column].sql);
    let kind = if *hash { quote!(Hash) } else { quote!(Tree) };
    quote! {
        impl ::tombolo::derived::DeclaredIndex for #ident {
            type Table = #owner;
            type Columns = (#(#types,)*);
            const NAME: &'static str = #name;
            const COLUMNS: &'static [usize] = &[#(#columns),*];
            const PARTS: &'static [::tombolo::derived::KeyPart] =
                &::tombolo::derived::KeyPart::sequence::<#count>(
                    <#owner as ::tombolo::derived::DeclaredTable>::COLUMNS,
                    <#ident as ::tombolo::derived::DeclaredIndex>::COLUMNS,
                );
            const UNIQUE: bool = #unique;
            const KIND: ::tombolo::IndexKind = ::tombolo::IndexKind::#kind;
        }
    }
}

fn read(table: &Ident, column: &Column) -> TokenStream {
    let Column { ident, field, sql, .. } = column;
    let name = capitals(column);
    quote_spanned! { field.span() =>
        #ident: <#field as ::tombolo::derived::Field<#sql>>::of(row.get(#table::#name))
    }
}

fn fill(table: &Ident, column: &Column) -> TokenStream {
    let Column { ident, field, sql, shape, .. } = column;
    let name = capitals(column);
    match shape {
        Shape::Inline => quote_spanned! { field.span() =>
            row.set(#table::#name, <#field as ::tombolo::derived::Field<#sql>>::value(&self.#ident));
        },
        Shape::Variable { nullable: false } => quote_spanned! { field.span() =>
            row.set_variable(#table::#name, &*self.#ident);
        },
        Shape::Variable { nullable: true } => quote_spanned! { field.span() =>
            row.set_variable(#table::#name, self.#ident.as_deref());
        },
    }
}
