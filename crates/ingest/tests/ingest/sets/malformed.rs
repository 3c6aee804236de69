//! Every way in which a row with actions can be wrong, with the field and the message.
