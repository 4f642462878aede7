-- What a process must know before it begins.
--
-- $1 none

select holdfast.store_facts() as answer where $1::text is null;
