import { pay } from "./actions";

export default function Page() {
  return (
    <form action={pay}>
      <input name="order" defaultValue="42" />
      <button>Pay</button>
    </form>
  );
}
