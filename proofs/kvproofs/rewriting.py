"""The program's own source, compiled so that it runs on symbolic values; its text is not changed.

Three things cannot be caught by a value and are rewritten in the syntax tree:
- `for x in items: body` becomes the invariant rule, see `loops`. `break` and `return` in the body keep their
  meaning; `continue`, `else` and `while` are not supported;
- list displays, `[x] * n` and empty dicts make symbolic ones, and a bytes constant joins such a list; a list
  comprehension that is assigned, returned or the last argument of a returned call becomes a loop that appends;
  `type(x) is kind` asks the value, and a name of a key is None only as far as a hash strategy is concerned;
- other comprehensions and generator expressions are not supported.
Built-in functions are replaced by ones that know symbolic values.
"""

from __future__ import annotations
import __future__

import ast
import inspect
from types import ModuleType
from typing import Any

from kvproofs import builtin
from kvproofs.errors import Unsupported


def load(module: ModuleType, replaced: dict[str, Any] | None = None) -> dict[str, Any]:
    """The names of a module after running its rewritten source; `replaced` stands for names that it imports."""
    return load_source(inspect.getsource(module), module.__name__, replaced)


def load_source(text: str, name: str, replaced: dict[str, Any] | None = None) -> dict[str, Any]:
    """The same, of any text."""
    names: dict[str, Any] = {"__name__": name, **builtin.NAMES}
    rewritten = ast.fix_missing_locations(_Rewriter(set(replaced or ())).visit(ast.parse(text)))
    names.update(replaced or {})
    flags = __future__.annotations.compiler_flag
    exec(compile(rewritten, f"<rewritten {name}>", "exec", flags=flags, dont_inherit=True), names)
    return names


def _assigned(body: list[ast.stmt]) -> list[str]:
    """The local names that statements bind, wherever inside them."""
    names = set()
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
                names.add(node.id)
            elif isinstance(node, ast.ExceptHandler) and node.name:
                names.add(node.name)
    return sorted(names)


def _call(name: str, *arguments: ast.expr) -> ast.expr:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def _method(target: str, name: str, *arguments: ast.expr) -> ast.expr:
    return ast.Call(ast.Attribute(ast.Name(target, ast.Load()), name, ast.Load()), list(arguments), [])


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _is_foreign(node: ast.expr) -> bool:
    """An attribute of something else than self."""
    return isinstance(node, ast.Attribute) and not _is_self(node.value)


_LOCALS = ast.Call(ast.Name("locals", ast.Load()), [], [])


class _Rewriter(ast.NodeTransformer):
    """`replaced`: imported names that are left to whoever loads the module."""

    def __init__(self, replaced: set[str]) -> None:
        self._replaced = replaced
        self._where: list[str] = []
        self._loops = 0
        self._in_function = False

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        node.names = [alias for alias in node.names if (alias.asname or alias.name) not in self._replaced]
        return node if node.names else None

    def visit_Import(self, node: ast.Import) -> ast.AST | None:
        node.names = [alias for alias in node.names if (alias.asname or alias.name) not in self._replaced]
        return node if node.names else None

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self._where.append(node.name)
        # Only methods run on symbolic values; a constant of the class is made by Python itself.
        node.body = [self.visit(item) if isinstance(item, ast.FunctionDef) else item for item in node.body]
        self._where.pop()
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        if self._in_function:
            return self._unsupported("a function in a function")
        self._loops, self._in_function = 0, True
        self._where.append(node.name)
        node.decorator_list = [self.visit(item) for item in node.decorator_list]
        node.body = self._block(node.body)
        self._where.pop()
        self._in_function = False
        node.returns = None
        for argument in [*node.args.args, *node.args.kwonlyargs, *node.args.posonlyargs]:
            argument.annotation = None
        return node

    def _block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        done: list[ast.stmt] = []
        for statement in body:
            seen = self.visit(statement)
            done.extend(seen if isinstance(seen, list) else [seen] if seen is not None else [])
        return done

    # --- loops ---------------------------------------------------------------------------------------------

    def visit_For(self, node: ast.For) -> Any:
        if not self._where or node.orelse or any(isinstance(n, ast.Continue) for n in ast.walk(node)):
            return self._unsupported("a loop with else or continue")
        self._loops += 1
        site, loop = f"{'.'.join(self._where)}#{self._loops}", f"_loop{self._loops}"
        changed = _assigned([node])
        items = self.visit(node.iter)
        body = self._block(node.body)
        store = ast.Tuple([ast.Name(name, ast.Store()) for name in changed], ast.Store())
        bound = ast.Tuple([ast.Constant(name) for name in changed], ast.Load())
        enter = _call("_enter_loop_", ast.Constant(site), items, _LOCALS, bound)
        havoc = [ast.Assign([store], _method(loop, "arbitrary", _LOCALS))] if changed else []
        item = ast.Assign([node.target], _method(loop, "item"))
        rounds = ast.For(
            ast.Name(f"{loop}_round", ast.Store()),
            _method(loop, "rounds"),
            [
                ast.If(
                    _method(loop, "goes_on"),
                    [item, *body, ast.Expr(_method(loop, "end_of_body", _LOCALS))],
                    [],
                )
            ],
            [],
        )
        return [ast.Assign([ast.Name(loop, ast.Store())], enter), *havoc, rounds]

    # --- displays and comprehensions -----------------------------------------------------------------------

    def visit_Assign(self, node: ast.Assign) -> Any:
        match node.targets:
            case [ast.Attribute(owner, name)] if not _is_self(owner):
                return self._set(owner, name, self.visit(node.value))
            case [ast.Tuple(targets)] if any(map(_is_foreign, targets)):
                parts = [f"_part{number}" for number in range(len(targets))]
                taken = ast.Tuple([ast.Name(part, ast.Store()) for part in parts], ast.Store())
                given = (
                    ast.Assign([target], ast.Name(part, ast.Load()))
                    for target, part in zip(targets, parts, strict=True)
                )
                return [ast.Assign([taken], self.visit(node.value)), *map(self.visit, given)]
        if isinstance(node.value, ast.ListComp):
            return self._comprehension(node.value, node)
        return self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        match node.target:
            case ast.Attribute(owner, name) if _is_foreign(node.target):
                if any(isinstance(part, ast.Call) for part in ast.walk(owner)):
                    return self._unsupported("an attribute of what a call gives is changed in place")
                return self._set(
                    owner, name, self.visit(ast.BinOp(ast.Attribute(owner, name, ast.Load()), node.op, node.value))
                )
        return self.generic_visit(node)

    def _set(self, owner: ast.expr, name: str, value: ast.expr) -> ast.stmt:
        """owner.name = value"""
        return ast.Expr(_call("_set_", value, self.visit(owner), ast.Constant(name)))

    def visit_Return(self, node: ast.Return) -> Any:
        match node.value:
            case ast.ListComp() as comp:
                return self._comprehension(comp, node)
            case ast.Call(_, [*_, ast.ListComp() as comp], []) as call:
                *loop, _ = self._comprehension(comp, ast.Return(None))
                call.args[-1] = ast.Name(f"_made{self._loops}", ast.Load())
                return [*loop, self.generic_visit(node)]
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if node.value is None:
            return node
        if isinstance(node.value, ast.ListComp):
            return self._comprehension(node.value, ast.Assign([node.target], node.value))
        annotation = ast.Constant(ast.unparse(node.annotation))
        if annotation.value == "Key" and isinstance(node.value, ast.Constant) and node.value.value is None:
            return ast.Assign([node.target], _call("_no_key_"))
        if isinstance(node.value, ast.Dict) and not node.value.keys:
            return ast.Assign([node.target], _call("_dict_", annotation))
        value = self.visit(node.value)
        if isinstance(node.value, ast.List):
            value = _call("_typed_", annotation, value)
        return ast.Assign([node.target], value)

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        match node:
            case ast.BinOp(ast.List([item]), ast.Mult(), count) if not isinstance(item, ast.Starred):
                return _call("_repeated_", self.visit(item), self.visit(count))
        return self.generic_visit(node)

    def _comprehension(self, comp: ast.ListComp, statement: Any) -> Any:
        if len(comp.generators) != 1 or comp.generators[0].ifs:
            return self._unsupported("a comprehension with conditions")
        made = f"_made{self._loops + 1}"
        append = ast.Expr(_method(made, "append", comp.elt))
        loop = ast.For(comp.generators[0].target, comp.generators[0].iter, [append], [])
        statement.value = ast.Name(made, ast.Load())
        return [ast.Assign([ast.Name(made, ast.Store())], _call("_list_")), *self.visit_For(loop), statement]

    def visit_List(self, node: ast.List) -> Any:
        if not isinstance(node.ctx, ast.Load):
            return self.generic_visit(node)
        parts = [
            ast.Tuple(
                [
                    ast.Constant(isinstance(e, ast.Starred)),
                    self.visit(getattr(e, "value", e) if isinstance(e, ast.Starred) else e),
                ],
                ast.Load(),
            )
            for e in node.elts
        ]
        return _call("_list_", *parts)

    def visit_Compare(self, node: ast.Compare) -> Any:
        """`type(x) is kind`: no value can answer what is asked of its type."""
        match node:
            case ast.Compare(ast.Call(ast.Name("type"), [value], []), [ast.Is() | ast.IsNot() as asked], [kind]):
                answer = _call("_has_type_", self.visit(value), self.visit(kind))
                return answer if isinstance(asked, ast.Is) else ast.UnaryOp(ast.Not(), answer)
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> Any:
        """`b"".join(parts)`: no real bytes can take symbolic ones."""
        match node:
            case ast.Call(ast.Attribute(ast.Constant(bytes() as separator), "join"), [parts], []):
                return _call("_join_", ast.Constant(separator), self.visit(parts))
        return self.generic_visit(node)

    def _no_expression(self, node: ast.expr) -> ast.expr:
        return _call("_unsupported_", ast.Constant(type(node).__name__))

    visit_ListComp = visit_GeneratorExp = visit_DictComp = visit_SetComp = _no_expression
    visit_Dict = visit_Set = visit_Lambda = visit_Yield = visit_YieldFrom = visit_Await = _no_expression

    def _no_statement(self, node: ast.stmt) -> ast.stmt:
        return self._unsupported(type(node).__name__)

    visit_While = visit_Global = visit_Nonlocal = visit_Match = visit_AsyncFor = visit_With = _no_statement

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        """State lives in the manager and its records: what else is bound to an attribute is not."""
        if isinstance(node.ctx, ast.Store) and _is_foreign(node):
            raise Unsupported("an attribute of something else than self is bound, not simply assigned")
        return self.generic_visit(node)

    def _unsupported(self, what: str) -> ast.stmt:
        return ast.Expr(_call("_unsupported_", ast.Constant(what)))
