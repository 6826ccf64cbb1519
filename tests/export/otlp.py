"""Reads OTLP profiles with the messages of PyPI's opentelemetry-proto, and prints their content: otlp.py FILE"""

import collections
import json
import sys

from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2
from opentelemetry.proto.profiles.v1development import profiles_pb2

with open(sys.argv[1], "rb") as file:
    data = file.read()
profiles = profiles_pb2.ProfilesData.FromString(data)
# A collector's request message has the same fields.
request = profiles_service_pb2.ExportProfilesServiceRequest.FromString(data)
problems = []
if request.dictionary != profiles.dictionary or not request.resource_profiles:
    problems.append("not a request")
tables = profiles.dictionary
strings = tables.string_table
for name in ("mapping", "location", "function", "link", "string", "attribute", "stack"):
    table = getattr(tables, name + "_table")
    rows = [row if isinstance(row, str) else row.SerializeToString() for row in table]
    if not rows or rows[0] not in ("", b""):
        problems.append(f"the first {name} is not empty")
    if name != "location" and len(set(rows)) != len(rows):
        problems.append(f"a {name} twice")


def unknown(message):
    """Fields that the messages lack."""
    again = type(message).FromString(message.SerializeToString())
    again.DiscardUnknownFields()
    return again.ByteSize() != message.ByteSize()


if unknown(profiles):
    problems.append("unknown fields")


def value(attribute):
    which = attribute.value.WhichOneof("value")
    return getattr(attribute.value, which)


attributes = collections.Counter()
totals = collections.Counter()
scopes = [scope for each in profiles.resource_profiles for scope in each.scope_profiles]
for profile in [profile for scope in scopes for profile in scope.profiles]:
    total = 0
    for sample in profile.samples:
        if len(sample.values) != 1 or not 0 < sample.stack_index < len(tables.stack_table):
            problems.append("a sample")
        total += sample.values[0]
        keys = [strings[tables.attribute_table[index].key_strindex] for index in sample.attribute_indices]
        if len(set(keys)) != len(keys):
            problems.append("a key twice")
        attributes.update(keys)
    kind = profile.sample_type
    totals[strings[kind.type_strindex], strings[kind.unit_strindex]] += total
    if profile.time_unix_nano != 1700000000000000000 or profile.duration_nano != 100000000:
        problems.append("the time")
for stack in tables.stack_table[1:]:
    if not stack.location_indices or not all(0 < index < len(tables.location_table) for index in stack.location_indices):
        problems.append("a stack")
inlined = []
for location in tables.location_table[1:]:
    mapping = tables.mapping_table[location.mapping_index]
    if location.mapping_index and not mapping.memory_start <= location.address < mapping.memory_limit:
        problems.append("an address")
    if len(location.lines) == 3:
        lines = []
        for line in location.lines:
            function = tables.function_table[line.function_index]
            lines.append([strings[function.name_strindex], strings[function.filename_strindex], line.line])
        build_id = [tables.attribute_table[index] for index in mapping.attribute_indices]
        assert [strings[each.key_strindex] for each in build_id] == ["process.executable.build_id.gnu"]
        inlined.append({
            "address": str(location.address),
            "file": strings[mapping.filename_strindex],
            "build_id": value(build_id[0]),
            "lines": lines,
        })
resources = []
for each in profiles.resource_profiles:
    resources.append({attribute.key: value(attribute) for attribute in each.resource.attributes})
    if len(resources[-1]) != len(each.resource.attributes):
        problems.append("a resource's key twice")
print(json.dumps({
    "types": [[*kind, str(total)] for kind, total in totals.items()],
    "attributes": attributes,
    "inlined": inlined,
    "resources": resources,
    "scopes": sorted({scope.scope.name for scope in scopes}),
    "problems": problems,
}))
