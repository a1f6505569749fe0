//! Parses a struct's fields and attributes, and validates them as far as possible without other tables.
//!
//! Every mistake is an error at the token that causes it, with a correction. Not here: generating code
//! (`expand.rs`).

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    Attribute, Data, DeriveInput, Error, Fields, GenericArgument, Ident, LitInt, LitStr, Path,
    PathArguments, Result, Token, Type, Visibility,
};

/// A struct that derives `Table`.
pub(crate) struct Table {
    pub(crate) ident: Ident,
    pub(crate) vis: Visibility,
    pub(crate) name: String,
    /// The path of the library.
    pub(crate) library: Path,
    pub(crate) columns: Vec<Column>,
    pub(crate) indexes: Vec<Index>,
}

/// One field.
pub(crate) struct Column {
    pub(crate) ident: Ident,
    pub(crate) vis: Visibility,
    pub(crate) docs: Vec<Attribute>,
    /// The field's type; errors of its conversion point to it.
    pub(crate) field: Type,
    /// The column's SQL type, if it is not the default of the field's type.
    pub(crate) sql: Option<Type>,
    pub(crate) range: Option<(TokenStream, TokenStream)>,
    pub(crate) hot: bool,
    pub(crate) added: bool,
    /// Its value in rows that were created without it.
    pub(crate) default: Option<TokenStream>,
    is_key: bool,
}

/// One index.
pub(crate) struct Index {
    pub(crate) ident: Ident,
    pub(crate) name: String,
    /// Positions of its columns.
    pub(crate) columns: Vec<usize>,
    pub(crate) unique: bool,
    pub(crate) hash: bool,
}

impl Column {
    /// The name of the column, and of its constant in capitals.
    pub(crate) fn name(&self) -> String {
        self.ident.unraw().to_string()
    }
}

impl Table {
    pub(crate) fn new(input: &DeriveInput) -> Result<Self> {
        if !input.generics.params.is_empty() {
            return Err(Error::new(
                input.generics.span(),
                "a table has no generics: its columns need concrete types",
            ));
        }
        let Data::Struct(data) = &input.data else {
            return Err(Error::new(input.ident.span(), "a table is a struct with named fields"));
        };
        let Fields::Named(fields) = &data.fields else {
            return Err(Error::new(input.ident.span(), "a table is a struct with named fields"));
        };
        if fields.named.is_empty() {
            return Err(Error::new(input.ident.span(), "a table has at least one column"));
        }
        let mut name = snake(&input.ident);
        let mut library = syn::parse_quote!(::tombolo);
        let columns = fields.named.iter().map(Column::new).collect::<Result<Vec<_>>>()?;
        for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("table")) {
            attribute.parse_args_with(|input: ParseStream<'_>| {
                while !input.is_empty() {
                    let option = Ident::parse_any(input)?;
                    match option.to_string().as_str() {
                        "name" => name = given_name(input)?,
                        "crate" => {
                            input.parse::<Token![=]>()?;
                            library = input.parse::<LitStr>()?.parse()?;
                        }
                        _ => {
                            let what =
                                "unknown option: a table has `name = \"…\"` and `crate = \"…\"`";
                            return Err(Error::new(option.span(), what));
                        }
                    }
                    if !input.is_empty() {
                        input.parse::<Token![,]>()?;
                    }
                }
                Ok(())
            })?;
        }
        let mut table = Self {
            ident: input.ident.clone(),
            vis: input.vis.clone(),
            name,
            library,
            columns,
            indexes: Vec::new(),
        };
        table.indexes = table.all_indexes(&input.attrs)?;
        Ok(table)
    }

    /// The key, and the indexes named by attributes of the struct.
    fn all_indexes(&self, attributes: &[Attribute]) -> Result<Vec<Index>> {
        let mut indexes = Vec::new();
        let key = self.columns.iter().enumerate().filter(|(_, column)| column.is_key);
        let key: Vec<usize> = key.map(|(position, _)| position).collect();
        if !key.is_empty() {
            let ident = Ident::new(&format!("{}Key", self.ident), self.ident.span());
            let name = format!("{}_key", self.name);
            indexes.push(Index { ident, name, columns: key, unique: true, hash: false });
        }
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("index")) {
            let index = attribute.parse_args_with(|input: ParseStream<'_>| self.index(input))?;
            if indexes.iter().any(|other| other.ident == index.ident || other.name == index.name) {
                return Err(Error::new(index.ident.span(), "two indexes have the same name"));
            }
            indexes.push(index);
        }
        Ok(indexes)
    }

    fn index(&self, input: ParseStream<'_>) -> Result<Index> {
        let ident: Ident = input.parse()?;
        let fields;
        syn::parenthesized!(fields in input);
        let fields = Punctuated::<Ident, Token![,]>::parse_terminated(&fields)?;
        if fields.is_empty() {
            return Err(Error::new(ident.span(), "an index has at least one column"));
        }
        let columns = fields.iter().map(|field| self.position(field)).collect::<Result<_>>()?;
        let name = format!("{}_{}", self.name, snake(&ident));
        let mut index = Index { ident, name, columns, unique: false, hash: false };
        let mut hash_at = Span::call_site();
        while !input.is_empty() {
            input.parse::<Token![,]>()?;
            if input.is_empty() {
                break;
            }
            let option: Ident = input.parse()?;
            match option.to_string().as_str() {
                "unique" => index.unique = true,
                "hash" => (index.hash, hash_at) = (true, option.span()),
                "name" => index.name = given_name(input)?,
                _ => {
                    let what = "unknown option: an index has `unique`, `hash` and `name = \"…\"`";
                    return Err(Error::new(option.span(), what));
                }
            }
        }
        if index.hash && !index.unique {
            return Err(Error::new(hash_at, "a hash index must be unique: add `unique`"));
        }
        Ok(index)
    }

    /// The column of a field that an index names.
    fn position(&self, field: &Ident) -> Result<usize> {
        let position = self.columns.iter().position(|column| column.ident == *field);
        position.ok_or_else(|| {
            let names: Vec<_> =
                self.columns.iter().map(|column| format!("`{}`", column.ident)).collect();
            let what = format!("no field `{field}`: the fields are {}", names.join(", "));
            Error::new(field.span(), what)
        })
    }
}

impl Column {
    fn new(field: &syn::Field) -> Result<Self> {
        let Some(ident) = field.ident.clone() else {
            return Err(Error::new(field.span(), "a column has a name"));
        };
        if !ident.unraw().to_string().is_ascii() {
            return Err(Error::new(ident.span(), "names of columns are ASCII"));
        }
        let is = |attribute: &&Attribute, name| attribute.path().is_ident(name);
        let (mut sql, mut range, mut hot, mut added) = (None, None, false, false);
        let mut default: Option<(TokenStream, Ident)> = None;
        for attribute in field.attrs.iter().filter(|attribute| is(attribute, "column")) {
            attribute.parse_args_with(|input: ParseStream<'_>| {
                while !input.is_empty() {
                    let option: Ident = input.parse()?;
                    match option.to_string().as_str() {
                        "sql" => {
                            input.parse::<Token![=]>()?;
                            sql = Some(input.parse::<Type>()?);
                        }
                        "range" => {
                            input.parse::<Token![=]>()?;
                            let low = number(input)?;
                            input.parse::<Token![..=]>()?;
                            range = Some((low, number(input)?));
                        }
                        "hot" => hot = true,
                        "added" => added = true,
                        "default" => {
                            input.parse::<Token![=]>()?;
                            default = Some((number(input)?, option));
                        }
                        _ => {
                            let what = "unknown option: a column has `sql = …`, `range = …`, `hot`, \
                                        `added` and `default = …`";
                            return Err(Error::new(option.span(), what));
                        }
                    }
                    if !input.is_empty() {
                        input.parse::<Token![,]>()?;
                    }
                }
                Ok(())
            })?;
        }
        if let Some((_, option)) = default.as_ref().filter(|_| !added) {
            let what = "only an added column has a default: `added, default = …`";
            return Err(Error::new(option.span(), what));
        }
        let default = default.map(|(default, _)| default);
        if argument(&field.ty, "Option").is_some_and(|inner| argument(inner, "Option").is_some()) {
            return Err(Error::new(field.ty.span(), "an Option cannot be nested: use one Option"));
        }
        let docs = field.attrs.iter().filter(|attribute| is(attribute, "doc")).cloned().collect();
        let is_key = field.attrs.iter().any(|attribute| attribute.path().is_ident("key"));
        let (vis, field) = (field.vis.clone(), field.ty.clone());
        Ok(Self { ident, vis, docs, field, sql, range, hot, added, default, is_key })
    }
}

/// A whole number, possibly negative.
fn number(input: ParseStream<'_>) -> Result<TokenStream> {
    let minus: Option<Token![-]> = input.parse()?;
    let number: LitInt = input.parse()?;
    Ok(quote!(#minus #number))
}

/// `= "name"`.
fn given_name(input: ParseStream<'_>) -> Result<String> {
    input.parse::<Token![=]>()?;
    let name: LitStr = input.parse()?;
    match name.value() {
        empty if empty.is_empty() => Err(Error::new(name.span(), "a name has at least one letter")),
        name => Ok(name),
    }
}

/// The `T` of `name<T>`.
pub(crate) fn argument<'t>(field: &'t Type, name: &str) -> Option<&'t Type> {
    let Type::Path(path) = field else { return None };
    let last = path.path.segments.last().filter(|last| last.ident == name)?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first()? {
        GenericArgument::Type(inner) => Some(inner),
        _ => None,
    }
}

/// `SomeName` as `some_name`.
fn snake(ident: &Ident) -> String {
    let mut snake = String::new();
    for (at, letter) in ident.unraw().to_string().char_indices() {
        if letter.is_uppercase() && at > 0 {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests;
