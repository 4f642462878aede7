export function headings(columns: readonly string[]): readonly string[];
export function cells(row: object, columns: readonly string[]): readonly string[];
