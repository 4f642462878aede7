-- End the quarantine.
--
-- $1 none

select holdfast.end_quarantine() as answer where $1::text is null;
