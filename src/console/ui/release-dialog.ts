/** The question before a lease is ended by force: whose it is, its fence, and why. */
import { h, replace } from "./dom.ts";
import { visible } from "./format.ts";
import { post } from "./stream.ts";
import type { Hello, HolderView, LockRow } from "../wire.ts";

const REASON_MAX = 1000;

export function askRelease(name: string, row: LockRow, holder: HolderView, hello: Hello | undefined): void {
  const reason = h("textarea", {
    id: "reason",
    rows: 3,
    required: true,
    maxlength: REASON_MAX,
    "aria-describedby": "reason-help",
  });
  const result = h("p", { class: "result", role: "status" });
  const go = h("button", { type: "submit", class: "danger" }, "End this lease");
  const close = h("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    if (reason.value.trim() === "") {
      reason.setAttribute("aria-invalid", "true");
      replace(result, "Say why: it is kept, and shown to all who look at this lock.");
      return reason.focus();
    }
    go.disabled = true;
    try {
      const { done } = await post<{ done: boolean }>(
        "release",
        { name, fence: holder.fence, reason: reason.value },
        hello?.csrf,
      );
      replace(
        result,
        done
          ? "The lease is over. Its holder hears of it at once, or at its next renewal."
          : "There is no such lease any more. Nothing was done.",
      );
      reason.disabled = true;
      go.hidden = true;
      close.textContent = "Close";
      close.focus();
    } catch (error) {
      go.disabled = false;
      replace(result, error instanceof Error ? error.message : String(error));
    }
  };
  const next = row.waiting > 0 ? "the next in the queue gets the lock" : "the lock is free";
  const form = h(
    "form",
    { method: "dialog", novalidate: true, onsubmit: (event: SubmitEvent) => void submit(event) },
    h("h2", { id: "release-title" }, "Force release"),
    h(
      "p",
      {},
      "Ends the lease ",
      h("code", { class: "fence" }, holder.fence),
      " of ",
      h("strong", {}, visible(holder.holder)),
      " on ",
      h("strong", {}, visible(name)),
      ".",
    ),
    h(
      "p",
      { class: "note" },
      `Its work is asked to stop, but may go on for a moment; then ${next}. Writes with this fence are refused by guards. A later lease has another fence, and is not touched.`,
    ),
    h("label", { for: "reason" }, "Reason"),
    reason,
    h("p", { class: "note", id: "reason-help" }, `Kept in the store with your name, ${visible(hello?.who ?? "")}.`),
    result,
    h("div", { class: "buttons" }, close, go),
  );
  const dialog = h("dialog", { "aria-labelledby": "release-title" }, form);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  reason.focus();
}
