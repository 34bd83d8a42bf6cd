//! How the tables say which field of the settings a row stands for.

/// A number stored as the named type; the bounds of its row keep it from being cut.
macro_rules! number {
    ($section:ident.$field:ident: $type:ty) => {
        Field {
            read: |settings| {
                #[allow(clippy::cast_lossless, reason = "of some types it is, of others not")]
                let number = settings.$section.$field as i64;
                Some(number)
            },
            write: |settings, number| settings.$section.$field = number as $type,
        }
    };
}

/// A number that may be unset.
macro_rules! optional_number {
    ($section:ident.$field:ident: $type:ty) => {
        Field {
            read: |settings| settings.$section.$field.map(i64::from),
            write: |settings, number| settings.$section.$field = Some(number as $type),
        }
    };
}

/// A text that may be unset.
macro_rules! optional_text {
    ($section:ident.$field:ident) => {
        Field {
            read: |settings| settings.$section.$field.clone(),
            write: |settings, text| settings.$section.$field = Some(text),
        }
    };
}

/// A number of bytes, a switch or another value stored as it is.
macro_rules! plain {
    ($section:ident.$field:ident) => {
        Field {
            read: |settings| Some(settings.$section.$field),
            write: |settings, value| settings.$section.$field = value,
        }
    };
}

/// One of the names of a `named_choices!` enum.
macro_rules! choice {
    ($section:ident.$field:ident: $choice:ident) => {
        Kind::Choice {
            names: $choice::NAMES,
            field: Field {
                read: |settings| Some(settings.$section.$field as usize),
                write: |settings, position| settings.$section.$field = $choice::ALL[position],
            },
        }
    };
}

pub(super) use {choice, number, optional_number, optional_text, plain};
