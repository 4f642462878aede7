/** A heading's anchor as GitHub makes it, so that one link works there and on the site. Of equal headings the later ones end in `-1`, `-2`, … */
export function slugOf(heading) {
  return heading
    .trim()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{M}\p{N}\p{Pc}\- ]/gu, "")
    .replaceAll(" ", "-");
}
