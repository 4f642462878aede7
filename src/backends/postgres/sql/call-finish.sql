-- End a claim and keep its outcome.
--
-- $1 lock
-- $2 claim
-- $3 minHold
-- $4 quarantine
-- $5 fence
-- $6 keep
-- $7 value

select holdfast.finish(
  $1::text::bytea, $2::text, $3::text::bigint, $4::text::bigint, $5::text::bigint, $6::text::bigint, $7::text::bytea) as answer;
