-- Who holds these wants to know when a claim begins to wait.
--
-- $1 locks
-- $2 claims
-- $3 inbox

select holdfast.expect_wanted($1::text::bytea[], $2::text::text[], $3::text) as answer;
