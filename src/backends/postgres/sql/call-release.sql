-- End a claim.
--
-- $1 lock
-- $2 claim
-- $3 minHold
-- $4 quarantine

select holdfast.release($1::text::bytea, $2::text, $3::text::bigint, $4::text::bigint) as answer;
