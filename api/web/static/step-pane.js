// The chosen step at length. A long observation comes in pieces, each an element of its own that is only laid out in view.
import { field, fill, make, number, plain, words } from "./fields.js";

const PIECE = 50_000;

const chars = (text) => [...text].length;

// A text that came with its beginning only says how much is missing.
function cut({ text, total_chars: total }) {
  const missing = total - chars(text);
  return missing > 0 ? `${text}\n\n… ${number(missing)} more characters` : text;
}

export class StepPane {
  #step = null;
  #next = 0;

  constructor(pane, store) {
    this.pane = pane;
    this.store = store;
    this.more = pane.querySelector("[data-more]");
    this.more.hidden = false;
    this.more.addEventListener("click", () => this.#more());
  }

  show(step, total) {
    if (this.#step === step) return;
    this.#step = step;
    const node = step.node;
    fill(this.pane, {
      index: step.index, intent: step.intent, "intent-name": step.intent_name, outcome: step.outcome,
      exit: `exit ${step.exit_code}`, rule: step.rule, "rule-meaning": step.rule_meaning, tool: step.tool,
      tokens: step.tokens_in === null && step.tokens_out === null
        ? "" : ` · ${number(step.tokens_in)} tokens in, ${number(step.tokens_out)} out`,
      call: step.call, "compared-as": step.compared_as, thought: cut(step.thought),
      observation: step.observation.text, "observation-size": `${number(step.observation.total_chars)} characters`,
      node: node?.node, "node-way": node?.is_on_way ? "on the run's way" : "alike, off the run's way",
      "node-support": node ? `${node.support} of ${node.donors}` : "", "node-action": node?.action,
      "node-confidence": node?.confidence.toFixed(2),
    });
    fill(this.pane, {
      exit: step.exit_code !== null, divergence: step.is_divergence, compared: step.compared_as !== "",
      "thought-block": step.thought.text !== "", "observation-block": step.observation.text !== "",
      "node-block": node !== null,
    });
    field(this.pane, "intent").className = `intent intent--${step.intent}`;
    field(this.pane, "outcome").className = `tag${{ ok: " tag--good", error: " tag--bad" }[step.outcome] ?? ""}`;
    if (node) field(this.pane, "node-meter").setAttribute("width", `${(100 * node.confidence).toFixed(1)}%`);
    this.#wastes(step);
    this.#edits(step);
    this.#next = chars(step.observation.text);
    field(this.pane, "observation").scrollTop = 0;
    field(this.pane, "observation-whole").href = `${this.store.address}/steps/${step.index}/observation.txt`;
    this.#offerMore(step.observation.total_chars);
    for (const link of this.pane.querySelectorAll("[data-go]")) {
      const target = Math.min(total - 1, Math.max(0, step.index + Number(link.dataset.go)));
      link.href = `?step=${target}#steps`;
    }
  }

  #wastes(step) {
    field(this.pane, "wastes").replaceChildren(...step.waste.map((item) => {
      const line = make("p", "note note--bad");
      line.append(make("b", "", words(item.category)), `: ${plain(item.evidence)}`);
      if (item.hint) line.append(" ", make("span", "muted", item.hint));
      return line;
    }));
  }

  #edits(step) {
    const text = (name, label, bounded) => {
      const shown = make("pre", name, cut(bounded));
      shown.tabIndex = 0;
      shown.setAttribute("aria-label", label);
      return shown;
    };
    field(this.pane, "edits").replaceChildren(...step.edits.map((edit) => {
      const box = make("div", "edit");
      if (edit.path) box.append(make("div", "where", edit.path));
      if (edit.old.text) box.append(text("old", "Before the edit", edit.old));
      if (edit.new.text) box.append(text("new", "After the edit", edit.new));
      return box;
    }));
  }

  #offerMore(total) {
    fill(this.pane, { "observation-more": this.#next < total });
    this.more.textContent = `Show more, ${number(total - this.#next)} characters left`;
  }

  async #more() {
    const step = this.#step;
    this.more.disabled = true;
    try {
      const piece = await this.store.observation(step.index, this.#next, PIECE);
      if (this.#step !== step) return;
      field(this.pane, "observation").append(make("span", "piece", piece.text));
      this.#next = piece.next_offset ?? piece.total_chars;
      this.#offerMore(piece.total_chars);
    } catch (error) {
      this.more.textContent = `Try again: ${error.message}`;
    } finally {
      this.more.disabled = false;
    }
  }
}
