/** Guards for files on one machine, and marks in files for other guards. */
export { type FencedFile, readFileFenced, writeFileFenced } from "./versions.ts";
export { fileMarks } from "./marks.ts";
