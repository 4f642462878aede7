/** Takes one item out of a short list, where a Set would cost more than it saves. */

/** `false`: it was not there. */
export function remove<T>(list: T[], item: T): boolean {
  // Mostly it is the only one, and splice() would allocate.
  if (list.at(-1) === item) {
    list.pop();
    return true;
  }
  const place = list.indexOf(item);
  if (place >= 0) list.splice(place, 1);
  return place >= 0;
}
