// C++ as shipped: virtual calls, recursion through them, exceptions; built without frame pointers
// and stripped.
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <vector>

#include "spin.h"

namespace shapes {

struct Node {
    virtual ~Node() = default;
    virtual uint64_t visit(unsigned depth) = 0;
};

struct Leaf final : Node {
    NOINLINE uint64_t visit(unsigned depth) override {
        spin(200000);
        if (depth % 2) throw std::runtime_error("odd");
        return depth;
    }
};

struct Branch final : Node {
    std::vector<std::unique_ptr<Node>> children;

    NOINLINE uint64_t visit(unsigned depth) override {
        uint64_t sum = 0;
        for (auto &child : children) sum += child->visit(depth + 1);
        return sum;
    }
};

std::unique_ptr<Node> build(unsigned depth) {
    if (!depth) return std::make_unique<Leaf>();
    auto branch = std::make_unique<Branch>();
    branch->children.push_back(build(depth - 1));
    return branch;
}

NOINLINE uint64_t guarded(Node &tree, unsigned start) {
    try {
        return tree.visit(start);
    } catch (const std::runtime_error &) {
        spin(50000);
        return 1;
    }
}

}  // namespace shapes

int main(int argc, char **argv) {
    uint64_t ms = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1000;
    auto tree = shapes::build(20);
    uint64_t end = thread_cpu_ns() + ms * 1000000u, sum = 0;
    for (unsigned start = 0; thread_cpu_ns() < end; start++) sum += shapes::guarded(*tree, start % 2);
    std::printf("sum=%lu\n", sum);
}
