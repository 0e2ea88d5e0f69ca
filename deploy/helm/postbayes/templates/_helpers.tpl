{{- define "postbayes.name" -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- define "postbayes.selector" -}}
app.kubernetes.io/name: postbayes
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "postbayes.labels" -}}
{{ include "postbayes.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}
