/** An AbortController that knows by itself whether it is aborted: each acquire asks several times, and to ask its signal is a call into Node. */
export class KnownAbort extends AbortController {
  aborted = false;

  override abort(reason?: unknown): void {
    this.aborted = true;
    super.abort(reason);
  }
}
