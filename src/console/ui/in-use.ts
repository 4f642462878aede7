/** What is pressed, marked or asked about is not replaced: a click would hit nothing, and what is to be copied would be gone. */

let isPressed = false;

/** Calls `over` when nothing is pressed any more. */
export function watchPresses(over: () => void): void {
  const end = (): void => {
    isPressed = false;
    over();
  };
  addEventListener("pointerdown", () => (isPressed = true), true);
  addEventListener("pointerup", end, true);
  addEventListener("pointercancel", end, true);
  // Of the window only: what has the focus loses it with every press.
  addEventListener("blur", end);
}

export function isInUse(element: Element): boolean {
  const marked = getSelection();
  const isMarked = marked !== null && !marked.isCollapsed && element.contains(marked.anchorNode);
  return isPressed || isMarked || document.querySelector("dialog") !== null;
}
