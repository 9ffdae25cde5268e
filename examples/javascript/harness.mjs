// Speaks kvaudit's protocol for the block manager of blocks.mjs: each line of standard input is answered with one line.
//
//    node harness.mjs [--bug]    with --bug, eviction leaves the mapping of the old prefix

import { createInterface } from "node:readline";

import { BlockManager, KeepsStaleMapping, OutOfBlocks } from "./blocks.mjs";

const Manager = process.argv.includes("--bug") ? KeepsStaleMapping : BlockManager;
const METHODS = {
  allocate: "allocate",
  append_slot: "appendSlot",
  free: "free",
  slot: "slot",
  can_allocate: "canAllocate",
  num_cached_tokens: "numCachedTokens",
  block_table: "blockTable",
};
const CAPABILITIES = [...Object.keys(METHODS), "num_free_blocks", "observe"];

let manager;
let lists = []; // those that the last operation took and returned

const MESSAGES = {
  start: () => ({ type: "started", name: "blocks.mjs", protocol: 1, profile: "strict", capabilities: CAPABILITIES }),
  open: ({ pool }) => {
    try {
      manager = new Manager(pool.num_blocks, pool.block_size, pool.enable_prefix_cache);
      return { type: "opened" };
    } catch (error) {
      return { type: "failed", error: error.constructor.name, message: error.message };
    }
  },
  run: ({ program }) => ({ type: "ran", outcomes: program.map(outcome) }),
};

const OPERATIONS = {
  allocate: ({ seq, tokens }) => {
    const table = manager.allocate(seq, tokens);
    lists = [tokens, table];
    return [...table];
  },
  append: ({ seq, token }) => manager.appendSlot(seq, token),
  free: ({ seq }) => manager.free(seq),
  slot: ({ seq, pos }) => manager.slot(seq, pos),
  can_allocate: ({ num_tokens }) => manager.canAllocate(num_tokens),
  // A careless caller overwrites the lists that it gave and was given: the manager is to hold copies.
  scribble: () => {
    for (const list of lists) list.fill(7).push(7);
    lists = [];
  },
  call: ({ method, args, fail_at }) => {
    if (fail_at !== null) args.push(failing(args.pop(), fail_at));
    return manager[METHODS[method]](...args);
  },
};

function outcome(operation) {
  if (operation.op === "observe") return { outcome: "observed", ...observed() };
  try {
    return { outcome: "returned", value: OPERATIONS[operation.op](operation) ?? null };
  } catch (error) {
    if (error instanceof OutOfBlocks) return { outcome: "refused" };
    // The errors of JavaScript itself are accidents; those of blocks.mjs say what was wrong.
    const named = !(error instanceof TypeError || error instanceof ReferenceError);
    return { outcome: "raised", error: error.constructor.name, message: error.message, named };
  }
}

function* failing(items, at) {
  for (const [i, item] of items.entries()) {
    if (i === at) throw new RangeError("the caller's token ids cannot be iterated to the end");
    yield item;
  }
}

function observed() {
  const ids = [...manager.sequences.keys()];
  const each = (read) => Object.fromEntries(ids.map((id) => [id, read(id)]));
  const records = (name) => each((id) => manager.sequences.get(id)[name]);
  return {
    num_free_blocks: manager.numFreeBlocks,
    tables: each((id) => manager.blockTable(id)),
    cached: each((id) => manager.numCachedTokens(id)),
    state: {
      free: manager.free_,
      evictable: [...manager.evictable.keys()],
      ref: manager.ref,
      block_hash: manager.key,
      hash_to_block: Object.fromEntries(manager.blockOf),
      tables: records("table"),
      tokens: records("tokens"),
      hashes: records("keys"),
      cached: records("cached"),
    },
  };
}

for await (const line of createInterface({ input: process.stdin })) {
  const message = JSON.parse(line);
  if (message.type === "stop") break;
  process.stdout.write(JSON.stringify(MESSAGES[message.type](message)) + "\n");
}
