-- End the quarantine.

select holdfast.end_quarantine() as answer;
