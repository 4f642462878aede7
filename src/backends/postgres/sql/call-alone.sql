-- Run a statement outside of any transaction, or not at all.
--
-- $1 statement
-- $2 values

call holdfast.alone($1::text, $2::text::text[], null);
