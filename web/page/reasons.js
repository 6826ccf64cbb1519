// Groups of reasons on a critical path, with the categories and colours of the profile (profiler/profile/src/shared/categories.rs).

/** Names of groups, in the order of the legend. */
export const GROUPS = [
  "on a CPU",
  "waiting for a CPU",
  "disk",
  "page fault",
  "file system",
  "memory",
  "lock",
  "pipe or socket",
  "event, timeout or child",
  "other",
];

const OTHER = GROUPS.length - 1;
const GROUP_OF = new Map([
  ["cpu", 0],
  ["run-queue", 1],
  ["throttled", 1],
  ["disk", 2],
  ["fault", 3],
  ["file-system", 4],
  ["memory", 5],
  ["lock", 6],
  ["pipe", 7],
  ["socket", 7],
  ["condition", 8],
  ["poll", 8],
  ["sleep", 8],
  ["child", 8],
  ["stopped", 8],
  ["kernel", OTHER],
  ["unknown", OTHER],
]);

/** The index of a reason's group. */
export function reasonGroup(reason) {
  return GROUP_OF.get(reason) ?? OTHER;
}
