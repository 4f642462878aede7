-- Release one claim and attempt another.
--
-- $1 held
-- $2 heldMinHold
-- $3 lock
-- $4 claim
-- $5 shared
-- $6 most
-- $7 ttl
-- $8 delay
-- $9 minHold
-- $10 run
-- $11 ticket
-- $12 inbox
-- $13 detail
-- $14 wants
-- $15 quarantine

select holdfast.swap(
  $1::text, $2::text::bigint, $3::text::bytea, $4::text, $5::text::boolean, $6::text::integer, $7::text::bigint, $8::text::bigint,
  $9::text::bigint, $10::text::integer, $11::text::bigint, $12::text, $13::text, $14::text::boolean,
  $15::text::bigint) as answer;
