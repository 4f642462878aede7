-- End many claims.
--
-- $1 locks
-- $2 claims
-- $3 minHolds
-- $4 quarantine
-- $5 wait

select holdfast.release_many($1::text::bytea[], $2::text::text[], $3::text::bigint[], $4::text::bigint, $5::text::boolean) as answer;
