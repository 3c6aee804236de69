//! A serializer that writes nothing and fails on a number that is not finite. JSON has no such numbers, and
//! `serde_json` writes them as null without an error.

use std::fmt;

use serde::ser::{self, Impossible, Serialize, Serializer};

/// Checks that every number of a value is finite.
pub(super) fn check<T: Serialize + ?Sized>(value: &T) -> Result<(), NotFinite> {
    value.serialize(Finite)
}

/// Why a value has no digest.
#[derive(Debug)]
pub(super) struct NotFinite(String);

impl fmt::Display for NotFinite {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotFinite {}

impl ser::Error for NotFinite {
    fn custom<T: fmt::Display>(message: T) -> Self {
        NotFinite(message.to_string())
    }
}

struct Finite;

type Checked = Result<(), NotFinite>;

/// Values without numbers, and integers.
macro_rules! accept {
    ($($method:ident($($type:ty),*)),* $(,)?) => {
        $(fn $method(self $(, _: $type)*) -> Checked { Ok(()) })*
    };
}

impl Serializer for Finite {
    type Ok = ();
    type Error = NotFinite;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Impossible<(), NotFinite>;
    type SerializeTupleVariant = Impossible<(), NotFinite>;
    type SerializeMap = Self;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    accept! {
        serialize_bool(bool), serialize_i8(i8), serialize_i16(i16), serialize_i32(i32), serialize_i64(i64),
        serialize_u8(u8), serialize_u16(u16), serialize_u32(u32), serialize_u64(u64), serialize_char(char),
        serialize_str(&str), serialize_bytes(&[u8]), serialize_none(), serialize_unit(),
        serialize_unit_struct(&'static str), serialize_unit_variant(&'static str, u32, &'static str),
    }

    fn serialize_f32(self, value: f32) -> Checked {
        self.serialize_f64(value.into())
    }

    fn serialize_f64(self, value: f64) -> Checked {
        if value.is_finite() { Ok(()) } else { Err(NotFinite(format!("{value} is not a finite number"))) }
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Checked {
        check(value)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Checked {
        check(value)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        value: &T,
    ) -> Checked {
        check(value)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self, NotFinite> {
        Ok(self)
    }

    fn serialize_tuple(self, _: usize) -> Result<Self, NotFinite> {
        Ok(self)
    }

    fn serialize_tuple_struct(
        self,
        name: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleStruct, NotFinite> {
        Err(NotFinite(format!("tuple structs such as {name} are not digested")))
    }

    fn serialize_tuple_variant(
        self,
        name: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, NotFinite> {
        Err(NotFinite(format!("tuple variants such as those of {name} are not digested")))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self, NotFinite> {
        Ok(self)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self, NotFinite> {
        Ok(self)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self, NotFinite> {
        Ok(self)
    }
}

impl ser::SerializeSeq for Finite {
    type Ok = ();
    type Error = NotFinite;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Checked {
        check(value)
    }

    fn end(self) -> Checked {
        Ok(())
    }
}

impl ser::SerializeTuple for Finite {
    type Ok = ();
    type Error = NotFinite;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Checked {
        check(value)
    }

    fn end(self) -> Checked {
        Ok(())
    }
}

impl ser::SerializeMap for Finite {
    type Ok = ();
    type Error = NotFinite;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, _: &T) -> Checked {
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Checked {
        check(value)
    }

    fn end(self) -> Checked {
        Ok(())
    }
}

impl ser::SerializeStruct for Finite {
    type Ok = ();
    type Error = NotFinite;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, _: &'static str, value: &T) -> Checked {
        check(value)
    }

    fn end(self) -> Checked {
        Ok(())
    }
}

impl ser::SerializeStructVariant for Finite {
    type Ok = ();
    type Error = NotFinite;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, _: &'static str, value: &T) -> Checked {
        check(value)
    }

    fn end(self) -> Checked {
        Ok(())
    }
}
