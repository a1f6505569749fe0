//! Generates the code of a derived table: constants, definitions, and conversions between a row and a value.
//!
//! The generated code names everything by its path in the library, so that names and aliases of the program
//! cannot interfere. Conversions have the span of their field, so the compiler's errors point to it.

use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use quote::quote;
use syn::spanned::Spanned;
use syn::{Path, Type};

use crate::parse::{Column, Index, Table, argument};

/// The code of a table.
pub(crate) fn expand(table: &Table) -> TokenStream {
    let Table { ident, name, library, columns, indexes, .. } = table;
    let constants = columns.iter().enumerate().map(|(at, column)| constant(table, at, column));
    let definitions = columns.iter().map(|column| definition(library, column));
    let types = indexes.iter().map(|index| index_type(table, index));
    let implementations = indexes.iter().map(|index| index_definition(table, index));
    let index_types = indexes.iter().map(|index| &index.ident);
    let reads = columns.iter().map(|column| read(table, column));
    let fills = columns.iter().map(|column| fill(table, column));
    let outside = columns.iter().map(|column| {
        let (field, name) = (field(library, column), &column.ident);
        at(column.field.span(), quote!(#field::outside_bytes(&self.#name)))
    });
    quote! {
        #(#types)*

        #[allow(
            dead_code,
            missing_docs,
            unreachable_pub,
            clippy::type_complexity,
            reason = "columns are declared for completeness"
        )]
        const _: () = {
            impl #ident {
                #(#constants)*
            }

            impl #library::derived::DeclaredTable for #ident {
                const NAME: &'static str = #name;
                const COLUMNS: &'static [#library::ColumnDef] = &[#(#definitions),*];
            }

            #(#implementations)*

            impl #library::TableRow for #ident {
                fn definition() -> #library::TableDef {
                    #library::TableDef::of::<#ident>()#(.with::<#index_types>())*
                }

                fn read<P: #library::derived::RowBytes>(row: &#library::RowRef<'_, Self, P>) -> Self {
                    Self { #(#reads),* }
                }

                fn fill(&self, row: &mut #library::NewRow<'_, Self>) {
                    #(#fills)*
                }

                fn outside_bytes(&self) -> usize {
                    0 #(+ #outside)*
                }
            }
        };
    }
}

/// The same code with this span; the compiler reports equal errors at one place only once.
fn at(span: Span, code: TokenStream) -> TokenStream {
    let placed = code.into_iter().map(|token| match token {
        TokenTree::Group(group) => {
            let mut placed = Group::new(group.delimiter(), at(span, group.stream()));
            placed.set_span(span);
            placed.into()
        }
        mut other => {
            other.set_span(span);
            other
        }
    });
    placed.collect()
}

/// The name of a column's constant.
fn capitals(column: &Column) -> Ident {
    Ident::new(&column.name().to_ascii_uppercase(), column.ident.span())
}

/// A type of one path segment, such as `Varchar<40>`, qualified with the library's path.
fn qualified(library: &Path, sql: &Type) -> TokenStream {
    if let Some(inner) = argument(sql, "Nullable") {
        let inner = qualified(library, inner);
        return quote!(#library::types::Nullable<#inner>);
    }
    match sql {
        Type::Path(path) if path.qself.is_none() && path.path.get_ident().is_some() => {
            quote!(#library::types::#sql)
        }
        Type::Path(path) if path.path.segments.len() == 1 => quote!(#library::types::#sql),
        other => quote!(#other),
    }
}

/// The field's type as a `Field` of its column's type.
fn field(library: &Path, column: &Column) -> TokenStream {
    let field = &column.field;
    let sql = match &column.sql {
        Some(sql) => {
            let named = qualified(library, sql);
            let is_option = argument(field, "Option").is_some();
            match is_option && argument(sql, "Nullable").is_none() {
                true => quote!(#library::types::Nullable<#named>),
                false => named,
            }
        }
        None => quote!(<#field as #library::types::DefaultColumn>::Sql),
    };
    at(field.span(), quote!(<#field as #library::types::Field<#sql>>))
}

fn constant(table: &Table, position: usize, column: &Column) -> TokenStream {
    let Table { ident, library, .. } = table;
    let Column { vis, docs, .. } = column;
    let (name, of) = (capitals(column), field(library, column));
    let is = quote!(: #library::Column<#ident, #of::Column> = #library::Column::new(
        <#ident as #library::derived::DeclaredTable>::COLUMNS,
        #position,
    ););
    let is = at(column.field.span(), is);
    quote!(#(#docs)* #vis const #name #is)
}

fn definition(library: &Path, column: &Column) -> TokenStream {
    let (name, field) = (column.name(), field(library, column));
    let range = column.range.iter().map(|(low, high)| quote!(.within(#low, #high)));
    let hot = column.hot.then(|| quote!(.hot()));
    let added = column.added.then(|| quote!(.added()));
    let default = column.default.iter().map(|default| quote!(.or(#default)));
    let of = at(column.field.span(), quote!(#library::ColumnDef::of::<#field::Column>));
    quote!(#of(#name) #(#range)* #hot #added #(#default)*)
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
    let (owner, library, count) = (&table.ident, &table.library, columns.len());
    let fields = columns.iter().map(|&column| &table.columns[column]);
    let types = fields.clone().map(|column| {
        let field = field(library, column);
        quote!(#field::Column)
    });
    let values = fields.map(|column| {
        let (field, name) = (field(library, column), &column.ident);
        quote!(#field::value(&row.#name))
    });
    let key = if count == 1 { quote!(#(#values)*) } else { quote!((#(#values),*)) };
    let kind = if *hash { quote!(Hash) } else { quote!(Tree) };
    quote! {
        impl #library::derived::DeclaredIndex for #ident {
            type Table = #owner;
            type Columns = (#(#types,)*);
            const NAME: &'static str = #name;
            const COLUMNS: &'static [usize] = &[#(#columns),*];
            const PARTS: &'static [#library::derived::KeyPart] =
                &#library::derived::KeyPart::sequence::<#count>(
                    <#owner as #library::derived::DeclaredTable>::COLUMNS,
                    <#ident as #library::derived::DeclaredIndex>::COLUMNS,
                );
            const UNIQUE: bool = #unique;
            const KIND: #library::IndexKind = #library::IndexKind::#kind;
        }

        impl #library::RowIndex for #ident {
            fn key_of(row: &#owner) -> <Self as #library::IndexType>::Key<'_> {
                #key
            }
        }
    }
}

fn read(table: &Table, column: &Column) -> TokenStream {
    let (owner, ident, name) = (&table.ident, &column.ident, capitals(column));
    let field = field(&table.library, column);
    let read = at(column.field.span(), quote!(#field::read(row, #owner::#name)));
    quote!(#ident: #read)
}

fn fill(table: &Table, column: &Column) -> TokenStream {
    let (owner, ident, name) = (&table.ident, &column.ident, capitals(column));
    let field = field(&table.library, column);
    at(column.field.span(), quote!(#field::fill(&self.#ident, row, #owner::#name);))
}
