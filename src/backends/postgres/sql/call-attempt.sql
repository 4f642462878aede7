-- Take the lock, or queue. Parameters and answers are text, whatever the types that a client library knows.
--
-- $1 lock
-- $2 claim
-- $3 shared
-- $4 most
-- $5 ttl
-- $6 delay
-- $7 minHold
-- $8 run
-- $9 ticket
-- $10 inbox
-- $11 detail
-- $12 wants
-- $13 quarantine

select holdfast.attempt(
  $1::text::bytea, $2::text, $3::text::boolean, $4::text::integer, $5::text::bigint, $6::text::bigint, $7::text::bigint,
  $8::text::integer, $9::text::bigint, $10::text, $11::text, $12::text::boolean,
  $13::text::bigint) as answer;
