// Functions inlined into each other at known lines, in a namespace and through a template.
volatile int sink;

namespace shapes {

template <typename T>
inline __attribute__((always_inline)) T leaf(T value) {
    sink = value * 3; // line 8: the innermost
    return sink;
}

struct Box {
    inline __attribute__((always_inline)) int area(int side) const {
        return leaf(side) + 1; // line 14: calls leaf
    }
};

__attribute__((noinline)) int outer(const Box &box, int side) {
    int total = box.area(side); // line 19: calls area
    return total ^ 7;
}

} // namespace shapes

int main(int argc, char **) {
    return shapes::outer(shapes::Box{}, argc);
}
