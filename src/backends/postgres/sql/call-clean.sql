-- Remove what is over.
--
-- $1 from
-- $2 rows
-- $3 idle

select holdfast.clean($1::text::bytea, $2::text::integer, $3::text::bigint) as answer;
