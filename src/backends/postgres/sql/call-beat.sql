-- Heartbeats of waiters.
--
-- $1 locks
-- $2 claims
-- $3 inbox
-- $4 quarantine

select holdfast.beat($1::text::bytea[], $2::text::text[], $3::text, $4::text::bigint) as answer;
