-- Who holds and who waits.
--
-- $1 from
-- $2 to

select answer from holdfast.look($1::text::bytea, $2::text::bytea) as answer;
