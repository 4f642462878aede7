-- What a process must know before it begins.

select holdfast.store_facts() as answer;
