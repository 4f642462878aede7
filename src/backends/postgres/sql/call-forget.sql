-- Remove an outcome.
--
-- $1 lock
-- $2 fence

select holdfast.forget($1::text::bytea, $2::text::bigint) as answer;
