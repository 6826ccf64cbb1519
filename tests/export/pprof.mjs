// Reads a pprof file with npm's pprof-format, and prints its content: pprof.mjs .../node_modules/pprof-format FILE
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { gunzipSync } from "node:zlib";

const [modules, file] = process.argv.slice(2);
const { Profile } = createRequire(modules + "/")(modules);
const profile = Profile.decode(gunzipSync(readFileSync(file)));
const strings = profile.stringTable.strings ?? profile.stringTable;
const text = (index) => strings[Number(index)];
const problems = [];
if (strings[0] !== "" || new Set(strings).size !== strings.length) problems.push("strings");

const byId = (rows, name) => {
    const map = new Map(rows.map((row) => [Number(row.id), row]));
    if (map.size !== rows.length || map.has(0)) problems.push(`ids of ${name}`);
    return map;
};
const mappings = byId(profile.mapping, "mappings");
const functions = byId(profile.function, "functions");
const locations = byId(profile.location, "locations");
for (const location of profile.location) {
    const mapping = mappings.get(Number(location.mappingId));
    if (Number(location.mappingId) && !mapping) problems.push("a mapping is missing");
    const [address, start, limit] = [location.address, mapping?.memoryStart ?? 0, mapping?.memoryLimit ?? 0].map((value) => BigInt.asUintN(64, BigInt(value)));
    if (mapping && !(start <= address && address < limit)) problems.push(`${address} is not in ${start} to ${limit}`);
    if (location.line.length === 0) problems.push("a location without a line");
    for (const line of location.line) if (!functions.has(Number(line.functionId))) problems.push("a function is missing");
}
const labels = {};
for (const sample of profile.sample) {
    if (sample.value.length !== profile.sampleType.length) problems.push("values");
    if (sample.locationId.length === 0) problems.push("a sample without a stack");
    for (const id of sample.locationId) if (!locations.has(Number(id))) problems.push("a location is missing");
    for (const label of sample.label) labels[text(label.key)] = (labels[text(label.key)] ?? 0) + 1;
}
const total = (index) => profile.sample.reduce((sum, sample) => sum + BigInt(sample.value[index]), 0n).toString();
const inlined = profile.location.filter((location) => location.line.length === 3).map((location) => {
    const mapping = mappings.get(Number(location.mappingId));
    const line = (line) => {
        const of = functions.get(Number(line.functionId));
        return [text(of.name), text(of.filename), Number(line.line)];
    };
    return {
        address: String(location.address),
        file: text(mapping.filename),
        build_id: text(mapping.buildId),
        lines: location.line.map(line),
    };
});
console.log(JSON.stringify({
    types: profile.sampleType.map((type, index) => [text(type.type), text(type.unit), total(index)]),
    time: String(profile.timeNanos),
    duration: String(profile.durationNanos),
    period: [text(profile.periodType.type), text(profile.periodType.unit), String(profile.period)],
    default: text(profile.defaultSampleType),
    inlined,
    labels,
    problems,
}));
