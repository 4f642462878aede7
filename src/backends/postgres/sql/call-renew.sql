-- Renew leases.
--
-- $1 locks
-- $2 claims
-- $3 fences
-- $4 ttl
-- $5 delay
-- $6 details
-- $7 wait

select holdfast.renew(
  $1::text::bytea[], $2::text::text[], $3::text::bigint[], $4::text::bigint, $5::text::bigint, $6::text::jsonb, $7::text::bigint) as answer;
