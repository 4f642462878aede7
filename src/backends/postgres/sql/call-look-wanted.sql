-- Which leases are wanted.
--
-- $1 locks
-- $2 claims

select holdfast.look_wanted($1::text::bytea[], $2::text::text[]) as answer;
