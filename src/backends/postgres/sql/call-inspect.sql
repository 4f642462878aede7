-- All that is known of one lock.
--
-- $1 lock
-- $2 quarantine

select answer from holdfast.inspect($1::text::bytea, $2::text::bigint) as answer;
