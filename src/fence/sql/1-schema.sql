-- Everything lives in a schema of its own, named in full, so that no search_path can split a mark in two.

create schema if not exists holdfast;
