// A method, closures, generic functions, and calls that the compiler inlines into each other.
package main

import (
	"fmt"
	"os"
	"sort"
	"strings"
)

type number interface{ ~int | ~float64 }

type counter struct{ total, calls int }

func square(x int) int { return x * x }

func cube(x int) int {
	y := square(x)
	return y*x + len(os.Args)
}

func (c *counter) add(x int) {
	c.calls++
	c.total += cube(x)
}

//go:noinline
func (c *counter) busy(rounds int) {
	for i := 0; i < rounds; i++ {
		c.add(i)
		if c.total%7 == 3 {
			c.total ^= square(i + 1)
		}
	}
}

//go:noinline
func sum[T number](values []T) T {
	var all T
	for _, value := range values {
		all += value
	}
	return all
}

//go:noinline
func closure(by int) func(int) int {
	return func(x int) int {
		for i := 0; i < by; i++ {
			x = x*31 + square(i)
		}
		return x
	}
}

func main() {
	c := &counter{}
	c.busy(1000)
	f := closure(len(os.Args))
	words := strings.Fields("to be or not to be")
	sort.Slice(words, func(i, j int) bool { return words[i] < words[j] })
	fmt.Println(c.total, f(c.calls), sum([]int{1, 2, 3}), sum([]float64{0.5}), words)
}
