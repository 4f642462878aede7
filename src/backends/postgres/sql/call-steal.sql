-- Take the lock from all who hold it.
--
-- $1 who
-- $2 lock
-- $3 claim
-- $4 shared
-- $5 most
-- $6 ttl
-- $7 delay
-- $8 minHold
-- $9 run
-- $10 ticket
-- $11 inbox
-- $12 detail
-- $13 wants
-- $14 quarantine

select holdfast.steal(
  $1::text, $2::text::bytea, $3::text, $4::text::boolean, $5::text::integer, $6::text::bigint, $7::text::bigint, $8::text::bigint,
  $9::text::integer, $10::text::bigint, $11::text, $12::text, $13::text::boolean, $14::text::bigint) as answer;
