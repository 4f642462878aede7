/** Gives a class the shape that Web IDL gives an interface: members that can be enumerated, a tag, and a constructor of no arguments. */
export function asInterface(
  kind: { readonly name: string; readonly prototype: object },
  members: readonly string[],
): void {
  for (const member of members) Object.defineProperty(kind.prototype, member, { enumerable: true });
  Object.defineProperty(kind.prototype, Symbol.toStringTag, { value: kind.name, configurable: true });
  Object.defineProperty(kind, "length", { value: 0 });
}
