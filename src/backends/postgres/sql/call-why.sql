-- Who ended these leases by force.
--
-- $1 locks
-- $2 claims

select holdfast.why($1::text::bytea[], $2::text::text[]) as answer;
