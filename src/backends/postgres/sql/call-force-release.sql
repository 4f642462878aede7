-- End a lease by its fence.
--
-- $1 lock
-- $2 fence
-- $3 who
-- $4 quarantine

select holdfast.force_release($1::text::bytea, $2::text::bigint, $3::text, $4::text::bigint) as answer;
