/** Takes one item out of a short list, where a Set would cost more than it saves. */

export function remove<T>(list: T[], item: T): void {
  // Mostly it is the only one, and splice() would allocate.
  if (list.at(-1) === item) {
    list.pop();
    return;
  }
  const place = list.indexOf(item);
  if (place >= 0) list.splice(place, 1);
}
